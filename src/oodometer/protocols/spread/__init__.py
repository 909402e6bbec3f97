"""How far do training runs of one classifier differ, and is that significant?"""
