# SPDX-License-Identifier: Apache-2.0
"""The table of a run: nereid and what it is measured beside, a line each."""
import statistics

ROW = "| {what} | {unit} | {nereid:.2f} | {other:.2f} | **{ratio:.2f}** | {low:.2f} to {high:.2f} | {better} |"
LINE = "{what:66} {unit:5} nereid {nereid:10.2f}  {who:>16} {other:10.2f}  ratio {ratio:6.2f}  ({low:.2f} to {high:.2f}, {better} is better)"


class Table:
    def __init__(self):
        self.rows = {}  # who nereid is beside → its rows

    def add(self, what, unit, better, values):
        """`values`: name of a side → one value for each round. A row for each side that is not nereid."""
        own = values["nereid"]
        for who, others in values.items():
            if who == "nereid":
                continue
            ratios = [a / b for a, b in zip(own, others)]
            nereid, other = statistics.median(own), statistics.median(others)
            row = {"what": what, "unit": unit, "better": better, "nereid": nereid, "other": other, "ratio": nereid / other,
                   "low": min(ratios), "high": max(ratios)}
            self.rows.setdefault(who, []).append(row)
            print(LINE.format(who=who, **row), flush=True)

    def markdown(self):
        """One table for each side that nereid was measured beside."""
        tables = []
        for who, rows in self.rows.items():
            head = f"| what | unit | nereid | {who} | ratio | least to largest | better |\n|---|---|---|---|---|---|---|\n"
            tables.append(head + "\n".join(ROW.format(**row) for row in rows) + "\n")
        return "\n".join(tables)
