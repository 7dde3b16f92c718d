"""The objective: its slots as pure functions, and the table of variants that choose from them."""
