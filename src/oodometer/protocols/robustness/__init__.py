"""Which detector varies least if another optimizer trains the classifier, and how surely?"""
