package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/url"
	"os"
	"strings"
	"time"
)

// clockSkew is how far the clocks of this machine and of whoever issued a credential may be apart before the
// credential is called expired without asking the API server.
const clockSkew = time.Minute

// eksTokenLifetime is how long an EKS token is accepted, counted from the X-Amz-Date inside it. Source: the Amazon EKS
// best practices guide and aws-iam-authenticator, "the token has a time to live of 15 minutes".
const eksTokenLifetime = 15 * time.Minute

// completeUser checks that the user of a connection has exactly one credential, unless it may have both, and that it can
// work.
func (o origin) completeUser(found *connection) error {
	user := &found.user
	if user.AuthProvider != nil {
		return o.fail("auth-provider is not supported",
			"User %s in %s has auth-provider %s. Kubernetes replaced these by exec plugins (the last cloud providers' were removed in 1.26), and berth speaks only to those. Write the kubeconfig again with the exec plugin of your provider, or use a token or a client certificate.",
			quoted(found.userName), o, quoted(user.AuthProvider.Name))
	}
	if user.Username != "" || user.Password != "" {
		return o.fail("basic authentication is gone from Kubernetes",
			"User %s in %s has a username and password, which API servers have refused since 1.19. Use a token, a client certificate or an exec plugin.", quoted(found.userName), o)
	}
	if err := o.completeTokenFile(found); err != nil {
		return err
	}
	var kinds []string
	if user.Token != "" {
		kinds = append(kinds, "a token")
	}
	if len(user.ClientCertificateData)+len(user.ClientKeyData) > 0 || user.ClientCertificate != "" || user.ClientKey != "" {
		kinds = append(kinds, "a client certificate")
	}
	if user.Exec != nil {
		kinds = append(kinds, "an exec plugin")
	}
	switch {
	case len(kinds) == 0:
		return o.fail("the user has no credential",
			"User %s in %s has neither token, client certificate nor exec, so the API server would treat berth as anonymous. Add one, or name another user in the context.", quoted(found.userName), o)
	case len(kinds) > 1 && !found.bothCredentials:
		return o.fail("the user has more than one credential",
			"User %s in %s has %s, and which of them the API server takes is not said anywhere. Keep one.", quoted(found.userName), o, listAnd(kinds))
	}
	switch {
	case len(kinds) > 1:
		o.offline = true // one of the two may have ended
		if err := o.checkToken(found); err != nil {
			return err
		}
		return o.completeCertificate(found)
	case user.Exec != nil:
		return o.completePlugin(found)
	case user.Token != "":
		return o.checkToken(found)
	}
	return o.completeCertificate(found)
}

func (o origin) completeTokenFile(found *connection) error {
	user := &found.user
	if user.TokenFile == "" {
		user.Token = strings.TrimSpace(user.Token)
		return nil
	}
	data, path, err := o.inline("tokenFile", user.TokenFile)
	if err != nil {
		return err
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return o.fail("the token file is empty",
			"tokenFile of user %s in %s names %s, which is empty. Write the token into it, or put it into the kubeconfig.", quoted(found.userName), o, quoted(path))
	}
	if given := strings.TrimSpace(user.Token); given != "" && given != token {
		return o.fail("the user has two tokens",
			"User %s in %s has a token, and a tokenFile %s with another one. Keep one of the two.", quoted(found.userName), o, quoted(path))
	}
	user.Token, user.TokenFile = token, path
	return nil
}

func (o origin) checkToken(found *connection) error {
	user := &found.user
	subject := o.field(found, "token", "", "token")
	if user.TokenFile != "" {
		subject = "the token in " + quoted(user.TokenFile) + " of user " + quoted(found.userName)
	}
	if strings.ContainsFunc(user.Token, notInToken) {
		return o.failAt(o.at("token"), "the token is not a bearer token",
			"%s holds white space or control characters in its middle, which no bearer token has. Give the token alone, without \"Bearer \" before it.", subject)
	}
	expiry, known := tokenExpiry(user.Token)
	if !known || o.offline || time.Now().Before(expiry.Add(clockSkew)) {
		return nil
	}
	return o.failAt(o.at("token"), "the token has expired",
		"%s expired at %s. Get a new one, or use exec, which gets one whenever it is needed, also in the middle of a long apply.", subject, moment(expiry))
}

func (o origin) completeCertificate(found *connection) error {
	user := &found.user
	for _, part := range []struct {
		field string
		path  *string
		data  *[]byte
	}{
		{"client-certificate", &user.ClientCertificate, &user.ClientCertificateData},
		{"client-key", &user.ClientKey, &user.ClientKeyData},
	} {
		if *part.path != "" && len(*part.data) == 0 {
			data, _, err := o.inline(part.field, *part.path)
			if err != nil {
				return err
			}
			*part.data = data
		}
		*part.path = ""
		if len(*part.data) == 0 {
			return o.fail("half a client certificate",
				"User %s in %s has no %s, and a client certificate needs both client-certificate and client-key. Add it.", quoted(found.userName), o, part.field)
		}
	}
	subject := o.field(found, "client_certificate", "", "client-certificate")
	key := o.field(found, "client_key", "", "client-key")
	certificate, err := firstCertificate(user.ClientCertificateData)
	if err != nil {
		return o.failAt(o.at("client_certificate"), "the client certificate is not PEM", "%s %s. Set it to the certificate in PEM%s.", subject, err, inBase64(o.host, "client-certificate-data"))
	}
	if err := checkKey(user.ClientKeyData); err != nil {
		return o.failAt(o.at("client_key"), "the client key cannot be used", "%s %s. Set it to the unencrypted private key in PEM%s.", key, err, inBase64(o.host, "client-key-data"))
	}
	if _, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData); err != nil {
		if strings.Contains(err.Error(), "does not match") {
			return o.failAt(o.at("client_key"), "the client certificate does not belong to the key",
				"%s does not match %s: the two come from different pairs. Take both from the same place.", subject, key)
		}
		return o.failAt(o.at("client_key"), "the client key cannot be used", "%s is not a private key that TLS can use. Set it to the private key of the certificate, in PEM.", key)
	}
	now := time.Now()
	switch {
	case o.offline:
	case now.After(certificate.NotAfter):
		return o.failAt(o.at("client_certificate"), "the client certificate has expired",
			"%s expired at %s. Have it renewed, and put the new certificate and key in its place.", subject, moment(certificate.NotAfter))
	case now.Add(clockSkew).Before(certificate.NotBefore):
		return o.failAt(o.at("client_certificate"), "the client certificate is not valid yet",
			"%s is valid from %s, and the clock here says %s. Check the clock of this machine, or wait.", subject, moment(certificate.NotBefore), moment(now))
	}
	return nil
}

// moment is a time as messages show it.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func parseCertificate(der []byte) (*x509.Certificate, error) { return x509.ParseCertificate(der) }

// firstCertificate is the leaf of a PEM chain. The error completes a sentence about the value and quotes none of it.
func firstCertificate(data []byte) (*x509.Certificate, error) {
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("is not PEM with a certificate in it")
		}
		if block.Type == "CERTIFICATE" {
			certificate, err := parseCertificate(block.Bytes)
			if err != nil {
				return nil, errors.New("holds a certificate that cannot be parsed")
			}
			return certificate, nil
		}
	}
}

// checkKey tells the ways in which a private key is not one. The error completes a sentence and quotes none of it.
func checkKey(data []byte) error {
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return errors.New("is not PEM with a private key in it")
		}
		encrypted := block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED")
		switch {
		case encrypted:
			return errors.New("is encrypted with a passphrase, which nobody can enter during an apply")
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return nil
		}
	}
}

// tokenExpiry reads from a bearer token when it expires, where the token says so: a JWT by its claim exp, an EKS token
// by the date of the request that is signed in it. Nothing is verified: only the API server can do that.
func tokenExpiry(token string) (expiry time.Time, known bool) {
	if signed, found := strings.CutPrefix(token, "k8s-aws-v1."); found {
		decoded, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(signed, "="))
		if err != nil {
			return time.Time{}, false
		}
		request, err := url.Parse(string(decoded))
		if err != nil {
			return time.Time{}, false
		}
		date, err := time.Parse("20060102T150405Z", request.Query().Get("X-Amz-Date"))
		return date.Add(eksTokenLifetime), err == nil
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return time.Time{}, false
	}
	var claims struct {
		Expiry *float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Expiry == nil {
		return time.Time{}, false
	}
	return time.Unix(int64(*claims.Expiry), 0), true
}

// tokenNow is the token that a configuration sends at this moment: a token file wins over the token, and is read again.
func tokenNow(token, file string) string {
	if file != "" {
		if data, err := os.ReadFile(file); err == nil {
			return strings.TrimSpace(string(data))
		}
	}
	return token
}
