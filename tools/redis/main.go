// Command redis is a Redis that keeps everything in memory, for Argo CD's cache. It is made of miniredis, so that no
// package of the system is needed.
package main

import (
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// tick is how often keys grow older. miniredis has no clock of its own: without it nothing would ever expire.
const tick = 100 * time.Millisecond

func main() {
	address := flag.String("address", "127.0.0.1:6379", "`address` to listen on")
	flag.Parse()

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(*address); err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	log.Printf("listening on %s", server.Addr())

	clock := time.NewTicker(tick)
	defer clock.Stop()
	last := time.Now()
	for {
		select {
		case <-stop:
			return
		case now := <-clock.C:
			server.FastForward(now.Sub(last))
			last = now
		}
	}
}
