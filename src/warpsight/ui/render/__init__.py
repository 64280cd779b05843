"""Terminal output: tables, numbers with units, notes and errors."""
