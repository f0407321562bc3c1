"""Find out which rights somebody exercises: replay recorded decisions with one right taken away."""
