"""Does a detector that is good on average stay so if somebody searches for outliers?"""
