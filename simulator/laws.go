package simulator

import "fmt"

// laws notes which laws of the world are broken.
type laws struct{ broken []string }

// violate notes that a law of the world is broken.
func (l *laws) violate(format string, args ...any) {
	l.broken = append(l.broken, fmt.Sprintf(format, args...))
}
