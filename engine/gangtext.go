package engine

import "fmt"

// Sentence returns the state of the gang as a sentence, without Reasons.
func (g *GangRoom) Sentence() string {
	pods := Plural(g.MinCount, "pod")
	switch g.Progress {
	case GangTooFew:
		return fmt.Sprintf("it waits for pods: %s start together, and %d exist", pods, g.Running+g.Existing+g.Coming+g.Left)
	case GangUntried:
		return fmt.Sprintf("it waits for kube-scheduler, which has not said yet that it finds no places for %s together", pods)
	case GangWaits:
		return fmt.Sprintf("it waits: nothing is started for it, because not all of %s that start together would have a place", pods)
	case GangStarts:
		return fmt.Sprintf("it starts: of its pods %d run, %d have a place on nodes that are there and %d on machines that start", g.Running, g.Existing, g.Coming)
	}
	text := fmt.Sprintf("%d of its pods run", g.Running)
	if n := g.Existing + g.Coming; n > 0 {
		text += fmt.Sprintf(", %d more have a place", n)
	}
	if g.Left > 0 {
		text += fmt.Sprintf(", and %d beyond those that start together have none yet", g.Left)
	}
	return text
}

// Advice tells the gang's owner what to do. It is empty if there is nothing to do.
func (g *GangRoom) Advice() string {
	switch g.Progress {
	case GangTooFew:
		return "make the other pods (the parallelism of a Job, the replicas of a Deployment), or a PodGroup with a smaller minCount"
	case GangWaits:
		return "have the NodePools allow what is lacking, or make a PodGroup with a smaller minCount"
	}
	return ""
}
