"""What a rehearsal shows: progress, timeline, breakdown of time, verdict."""
