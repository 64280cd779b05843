"""warpsight: records GPU programs and answers from the recording."""
