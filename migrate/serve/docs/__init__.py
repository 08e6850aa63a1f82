"""What can be asked, for programs and for people."""
