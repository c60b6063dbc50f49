package provider

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/types"
)

// sealed is a salted hash of write-only values, by which a later plan tells that they have changed.
type sealed struct {
	Salt []byte `json:"salt"`
	Hash []byte `json:"hash"`
}

// seal hashes values; all of them have to be known.
func seal(ctx context.Context, values types.Map, salt []byte) sealed {
	// A map of strings always has JSON, whose keys are sorted.
	plain, _ := json.Marshal(stringMap(ctx, values))
	code := hmac.New(sha256.New, salt)
	code.Write(plain)
	return sealed{Salt: salt, Hash: code.Sum(nil)}
}

// newSeal hashes values with a salt of its own, as JSON.
func newSeal(ctx context.Context, values types.Map) []byte {
	salt := make([]byte, 16)
	// It never gives an error: see crypto/rand.
	_, _ = rand.Read(salt)
	data, _ := json.Marshal(seal(ctx, values, salt))
	return data
}

// broken tells whether values are others than those that a seal was made of. Nothing is known without a seal.
func broken(ctx context.Context, data []byte, values types.Map) bool {
	var before sealed
	if data == nil || json.Unmarshal(data, &before) != nil {
		return false
	}
	return !hmac.Equal(before.Hash, seal(ctx, values, before.Salt).Hash)
}
