"""Does a two-state chain describe a fleet?"""
