"""``vil-bridge bench render``.

What a picture costs, as a ratio to the plainest loop that draws one.
"""
