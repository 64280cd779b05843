"""What the user sees on a terminal: tables, numbers with units, notes and errors."""
