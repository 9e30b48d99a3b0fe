"""Does the training of a network repeat, what does that cost, and what does hardware buy?"""
