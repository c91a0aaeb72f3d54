"""``vil-bridge bench render``: what a picture costs, as a ratio to the plainest loop that draws one."""
