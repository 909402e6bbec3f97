"""What does choosing a detector's settings gain, and how much of it is self-deception?"""
