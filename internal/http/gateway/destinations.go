package gateway

import (
	"maps"
	"net/http"
	"slices"

	"turnstile/internal/outbox"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
)

// destination is a receiver of deliveries. Its address is shown without its path, which may have a
// secret.
type destination struct {
	Name     string   `json:"name"`
	Host     string   `json:"host,omitempty"`
	Sessions []string `json:"sessions"`
	From     []string `json:"from,omitempty"`
	destinationState
}

// destinationState is why a destination gets no deliveries.
type destinationState struct {
	Paused   bool   `json:"paused,omitempty"`
	Disabled bool   `json:"disabled,omitempty"`
	Why      string `json:"why,omitempty"`
	At       int64  `json:"at,omitempty"` // ms: when it is tried again, or since when it is disabled
}

func destinationStateOf(d admin.Destination) destinationState {
	s := destinationState{Paused: d.Paused, Disabled: d.Disabled, Why: d.Why}
	switch {
	case !d.Since.IsZero():
		s.At = d.Since.UnixMilli()
	case !d.RetryAt.IsZero():
		s.At = d.RetryAt.UnixMilli()
	}
	return s
}

// operatesAll fails unless the token sees every session: destinations belong to all of them.
func (r *Request) operatesAll() error {
	if !r.Token.SeesAll() {
		return Fail(Forbidden, `The token %s may not operate destinations: they belong to all sessions, and its "sessions" has no "*".`, r.Token.Name)
	}
	return nil
}

// getDestinations lists the destinations that gateways share, and others that are paused or disabled.
func (g *Gateway) getDestinations(w http.ResponseWriter, r *Request) error {
	if err := r.CheckQuery(); err != nil {
		return err
	}
	if err := r.operatesAll(); err != nil {
		return err
	}
	off, err := g.deps.Admin.Destinations(r.Work())
	if err != nil {
		return err
	}
	states := map[string]destinationState{}
	for _, d := range off {
		states[d.Name] = destinationStateOf(d)
	}
	list := []destination{}
	all, _ := g.outcomeRoutes()
	for _, to := range all {
		d := destination{Name: to.Name, Sessions: append([]string{}, to.Sessions...), From: to.From, destinationState: states[to.Name]}
		if own := g.deps.Destinations.Current().Named(to.Name); own != nil {
			d.Host = own.Host()
		}
		list = append(list, d)
		delete(states, to.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(states)) {
		list = append(list, destination{Name: name, Sessions: []string{}, destinationState: states[name]})
	}
	return Respond(w, http.StatusOK, struct {
		Destinations []destination `json:"destinations"`
		Differ       bool          `json:"differ,omitempty"`
	}{list, g.DestinationsDiffer()})
}

// DestinationsDiffer reports whether another gateway's file of destinations is in force, and differs from this
// one's.
func (g *Gateway) DestinationsDiffer() bool {
	return g.deps.Destinations != nil && g.deps.Destinations.Differs()
}

func (g *Gateway) postEnable(w http.ResponseWriter, r *Request) error {
	return g.setDestination(w, r, destinationState{})
}

func (g *Gateway) postPause(w http.ResponseWriter, r *Request) error {
	return g.setDestination(w, r, destinationState{Paused: true, Why: "paused by " + r.Token.Name})
}

// setDestination pauses or enables a destination for all deliverers.
func (g *Gateway) setDestination(w http.ResponseWriter, r *Request, s destinationState) error {
	name, err := g.destinationOf(w, r)
	if err != nil {
		return err
	}
	if s.Paused {
		err = g.deps.Admin.PauseDestination(r.Work(), name, s.Why)
	} else {
		err = g.deps.Admin.EnableDestination(r.Work(), name)
	}
	if err != nil {
		return err
	}
	return Respond(w, http.StatusOK, struct {
		Name string `json:"name"`
		destinationState
	}{name, s})
}

// postTest posts a ping to a destination.
func (g *Gateway) postTest(w http.ResponseWriter, r *Request) error {
	name, err := g.destinationOf(w, r)
	if err != nil {
		return err
	}
	if _, known := g.outcomeRoutes(); !known {
		return Fail(UnknownDestination, "This gateway has no file of destinations; see TURNSTILE_GATEWAY_DESTINATIONS_FILE.")
	}
	to := g.deps.Destinations.Current().Named(name)
	if to == nil {
		return Fail(UnknownDestination, "The destination %s is not in this gateway's file of destinations: give all gateways the same file.", name)
	}
	tested := struct {
		Name   string `json:"name"`
		OK     bool   `json:"ok"`
		Status int    `json:"status"` // of the response; 0: no response
		Error  string `json:"error,omitempty"`
	}{Name: name, OK: true}
	if tested.Status, err = outbox.Ping(r.Work(), to); err != nil {
		tested.OK, tested.Error = false, err.Error()
	}
	return Respond(w, http.StatusOK, tested)
}

// destinationOf returns the destination in the path of a request without a body.
func (g *Gateway) destinationOf(w http.ResponseWriter, r *Request) (string, error) {
	if err := r.Decode(w, &struct{}{}, false); err != nil {
		return "", err
	}
	if err := r.operatesAll(); err != nil {
		return "", err
	}
	name := r.PathValue("d")
	if err := wire.ValidateDestination(name); err != nil {
		return "", err
	}
	if all, known := g.outcomeRoutes(); known && all.Named(name) == nil {
		return "", Fail(UnknownDestination, "The destination %s is not in the gateways' file of destinations.", name)
	}
	return name, nil
}
