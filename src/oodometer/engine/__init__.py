"""From a study to findings: plan, run, collect, with every result kept in a store."""
