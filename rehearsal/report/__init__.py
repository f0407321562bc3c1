"""Show the results of a rehearsal: progress, timeline, breakdown of time, verdict."""
