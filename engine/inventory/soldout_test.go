package inventory

import (
	"testing"
	"time"
)

func TestWhatIsSoldOutAgainIsLeftAloneForTwiceAsLong(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	now, mark := start, SoldOut{}
	for _, minutes := range []time.Duration{3, 6, 12, 24, 30, 30} {
		mark = mark.Again(now)
		if same := mark.Again(now.Add(time.Second)); same != mark {
			t.Errorf("a second failure at once counts: %+v, want %+v", same, mark)
		}
		if want := now.Add(minutes * time.Minute); !mark.Until().Equal(want) || !mark.Holds(want.Add(-time.Second)) || mark.Holds(want) {
			t.Errorf("left alone until %v, want %v", mark.Until(), want)
		}
		now = mark.Until()
	}
	if now = now.Add(time.Hour); mark.IsOver(now) {
		t.Error("forgotten after an hour")
	}
	if now = now.Add(time.Second); !mark.IsOver(now) || mark.Again(now).Until() != now.Add(3*time.Minute) {
		t.Errorf("after more than an hour: until %v, want a new case", mark.Again(now).Until())
	}
}
