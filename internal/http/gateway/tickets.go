package gateway

import (
	"crypto/hmac"
	"encoding/json"
	"net/http"
	"time"

	"turnstile/pkg/session"
)

// ticketLife is how long a ticket may be redeemed.
const ticketLife = time.Minute

// grant is the meaning of a ticket: one session's stream, for the token that fetched it.
type grant struct {
	Token   string `json:"token"`
	Session string `json:"session"`
	MAC     string `json:"mac"` // of the session by the token's secret: a ticket ends with the secret. Earlier gateways store none
}

// postTicket makes a ticket for one session's stream.
func (g *Gateway) postTicket(w http.ResponseWriter, r *Request) error {
	var body struct {
		Session string `json:"session"`
	}
	if err := r.Decode(w, &body, true); err != nil {
		return err
	}
	if err := session.ValidateKey(body.Session); err != nil {
		return err
	}
	if !r.Token.Sees(body.Session) {
		return unknownSession(body.Session)
	}
	data, err := json.Marshal(grant{r.Token.Name, body.Session, r.Token.ticketMAC(body.Session)})
	if err != nil {
		return err
	}
	ticket, err := g.deps.Store.NewTicket(r.Work(), string(data), ticketLife)
	if err != nil {
		return err
	}
	return Respond(w, http.StatusCreated, struct {
		Ticket    string `json:"ticket"`
		Session   string `json:"session"`
		ExpiresIn int    `json:"expires_in"` // seconds
	}{ticket, body.Session, int(ticketLife / time.Second)})
}

// redeem returns the current token of a ticket.
func (g *Gateway) redeem(r *Request) (Token, error) {
	data, ok, err := g.deps.Store.RedeemTicket(r.Work(), r.URL.Query().Get("ticket"))
	if err != nil {
		return Token{}, err
	}
	var of grant
	if !ok || json.Unmarshal([]byte(data), &of) != nil {
		return Token{}, Fail(Unauthorized, "The ticket is unknown, was used before, or has expired.")
	}
	token, found := g.config.Tokens.named(of.Token)
	if !found || of.Session != r.Session {
		return Token{}, Fail(Unauthorized, "The ticket is for another stream.")
	}
	if of.MAC != "" && !hmac.Equal([]byte(of.MAC), []byte(token.ticketMAC(of.Session))) {
		return Token{}, Fail(Unauthorized, "The token of the ticket was changed.")
	}
	return token, nil
}

// ticketMAC authenticates a ticket of the token.
func (t Token) ticketMAC(session string) string { return t.mac("ticket", session) }
