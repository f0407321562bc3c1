"""Commands on environment files: new, import, check, explain, schema."""
