package engine

import (
	"os"
	"time"
)

var now = time.Now

func stub() { now = nil; _ = os.Args }
