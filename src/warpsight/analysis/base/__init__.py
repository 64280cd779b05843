"""What every analysis uses: results, findings, filters, and arithmetic on series and distributions."""
