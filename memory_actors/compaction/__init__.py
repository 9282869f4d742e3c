"""Old memories become summaries: which belong together, what replaces them."""
