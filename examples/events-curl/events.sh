#!/usr/bin/env bash
# Posts one event of a user and asks for recommendations: MACRID_TOKEN=… ./events.sh http://localhost:8000 alice bag-0001
set -euo pipefail
base=$1 user=$2 item=$3
call() {
  curl --silent --show-error --fail-with-body -H "authorization: Bearer ${MACRID_TOKEN:-none}" \
    -H "content-type: application/json" "$@"
  echo
}
call "$base/v1/users/$user/events" -d "{\"events\": [{\"id\": \"$(uuidgen 2>/dev/null || date +%s%N)\", \"item\": \"$item\"}]}"
call "$base/v1/recommend" -d "{\"user\": \"$user\", \"n\": 5}"
