package cli

import (
	"cmp"
	"fmt"

	"tenon.sh/engine"
)

// commitmentLine returns the cost of commitments and its unused part in one line; "" without commitments.
func commitmentLine(uses []engine.CommitmentUse) string {
	if len(uses) == 0 {
		return ""
	}
	committed, idle, used, instead := 0.0, 0.0, 0.0, 0.0
	for _, u := range uses {
		committed, idle = committed+u.CommittedPerHour, idle+u.IdlePerHour
		used, instead = used+u.UsedPerHour+u.LaunchesPerHour, instead+u.InsteadPerHour
	}
	return fmt.Sprintf("Commitments cost %s/h whether they are used or not, beside all other prices here: machines use %s/h in the place of %s/h, and %s/h is idle.",
		engine.Dollars(committed), engine.Dollars(used), engine.Dollars(instead), engine.Dollars(idle))
}

// commitmentTable lists the use of each commitment.
func commitmentTable(t *terminal, uses []engine.CommitmentUse) []string {
	if len(uses) == 0 {
		return nil
	}
	rows := [][]string{{"COMMITMENT", "USD/HOUR", "USED", "ELSEWHERE", "IDLE", "MACHINES", "INSTEAD OF", "WHY"}}
	for _, u := range uses {
		rows = append(rows, []string{u.Name, money(u.CommittedPerHour), money(u.UsedPerHour + u.LaunchesPerHour), money(u.ElsewherePerHour), money(u.IdlePerHour),
			fmt.Sprint(u.Machines), money(u.InsteadPerHour), cmp.Or(u.Problem, "-")})
	}
	return table(t, "", rows)
}
