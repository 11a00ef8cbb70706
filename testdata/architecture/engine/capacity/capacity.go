// This package says what it is in the wrong form.
package capacity
