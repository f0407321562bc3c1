"""Review pod templates: privileges, accounts, images, what they read and write, and the texts that they run."""
