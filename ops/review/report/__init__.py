"""The report of a review: one verdict drawn as Markdown, as a page of HTML or for a terminal."""
