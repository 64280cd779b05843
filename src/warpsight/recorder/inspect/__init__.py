"""Looking at running processes from outside: who they are, what each thread does, and where it is."""
