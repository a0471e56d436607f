"""The reference of docs/reference, written from the code: settings, verbs, public names, keys of files."""
