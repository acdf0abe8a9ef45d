package session

import (
	"fmt"
	"slices"
	"strings"

	"turnstile/internal/text/pattern"
)

// The words of Question.Approvers that are no patterns.
const (
	ApproveSender = "sender" // Question.Senders
	ApproveAnyone = "anyone" // everybody who may decide questions at all
)

// ValidateApprovers checks a list as Question.Approvers has it. The error wraps ErrInvalid.
func ValidateApprovers(approvers []string) error {
	for _, a := range approvers {
		for _, part := range strings.Split(a, "/") {
			if err := ValidateID(strings.ReplaceAll(part, "*", "x")); err != nil || strings.Count(a, "/") > 1 {
				return fmt.Errorf(`%w approver %.100q: write sender, anyone, or a sender such as web/alice or ops/*`, ErrInvalid, a)
			}
		}
	}
	return nil
}

// MayDecide reports whether a sender is one of the question's Approvers. Without Approvers nobody is.
func (q Question) MayDecide(who string) bool {
	return slices.ContainsFunc(q.Approvers, func(a string) bool {
		switch a {
		case ApproveAnyone:
			return true
		case ApproveSender:
			return slices.Contains(q.Senders, who)
		}
		return fitsPattern(a, who)
	})
}

// fitsPattern reports whether a sender fits a pattern, in which * stands for any characters but a slash.
func fitsPattern(approver, who string) bool {
	patterns, parts := strings.Split(approver, "/"), strings.Split(who, "/")
	if len(patterns) != len(parts) {
		return false
	}
	for i, p := range patterns {
		if !pattern.Fits(p, parts[i]) {
			return false
		}
	}
	return true
}
