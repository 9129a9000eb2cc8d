"""The verbs and the loops; they alone change state."""
