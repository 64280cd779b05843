"""The command line: one module per verb; `app.VERBS` lists them."""
