// Command broken is a tree that breaks every rule of the architecture.
package main

import _ "tenon.sh/engine"
