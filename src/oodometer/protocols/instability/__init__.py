"""How far does one factor move every detector, and does the order of detectors survive it?"""
