"""The commands of core, one module each, imported when they are called."""
