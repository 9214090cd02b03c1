/// The steps of the sign-in throttle: the arithmetic of `ThrottleRule` at the server, so that no attempt has to compare
/// and repeat. All keys of a call are in one slot.
///
/// A state is text of three numbers: count, start of the period, earliest time of the next attempt. A rule is text of its
/// parameters: see `ThrottleRule.stored`. Times are those of the calling gateway, in milliseconds.
enum ThrottleScripts {
    private static let arithmetic = """
        local now = tonumber(ARGV[1])
        local function parse_rule(text)
          local limit, window, kind, first, longest, memory, delay =
            string.match(text, '^(%d+) (%d+) (%a) (%d+) (%d+) (%d+) (%d+)$')
          return {limit = tonumber(limit), window = tonumber(window), kind = kind, first = tonumber(first),
            longest = tonumber(longest), memory = tonumber(memory), delay = tonumber(delay)}
        end
        local function parse_state(text)
          local count, since, after = string.match(text or '', '^(%d+) (%-?%d+) (%-?%d+)$')
          return count and {count = tonumber(count), since = tonumber(since), after = tonumber(after)}
        end
        local function ending(rule, state)
          return math.max(state.since + rule.window, state.after + (state.count >= rule.limit and rule.memory or 0))
        end
        local function current(rule, state)
          if not state then return nil end
          state.since = math.min(state.since, now)
          if state.after - now > rule.delay then state.after = now end
          return now < ending(rule, state) and state or nil
        end
        local function following(rule, state)
          if state.count < rule.limit then return 0 end
          if rule.kind == 'w' then return state.since + rule.window end
          if rule.kind == 'c' then return now + rule.first end
          return now + math.min(rule.first * 2 ^ math.min(state.count - rule.limit, 20), rule.longest)
        end
        local function store(key, rule, state)
          local left = state and math.min(ending(rule, state) - now, rule.window + rule.delay + rule.memory) or 0
          if left <= 0 then return redis.call('DEL', key) end
          redis.call('SET', key, string.format('%.0f %.0f %.0f', state.count, state.since, state.after),
            'PX', string.format('%.0f', left))
        end

        """

    /// Counts an attempt under all keys, or under none. ARGV: the time, then a rule for each key.
    /// - Returns: 1 and the earlier states, empty for none; or 0 and the waits in milliseconds.
    static let count = ValkeyScript(
        arithmetic + """
            local before, waits, rules, states, is_delayed = {1}, {0}, {}, {}, false
            for number, key in ipairs(KEYS) do
              local text = redis.call('GET', key) or ''
              local state = parse_state(text)
              before[number + 1] = state and text or ''
              rules[number] = parse_rule(ARGV[number + 1])
              states[number] = current(rules[number], state) or {count = 0, since = now}
              local wait = math.max((states[number].after or now) - now, 0)
              waits[number + 1] = string.format('%.0f', wait)
              is_delayed = is_delayed or wait > 0
            end
            if is_delayed then return waits end
            for number, key in ipairs(KEYS) do
              local state = states[number]
              state.count = math.min(state.count + 1, 4294967295)
              state.after = following(rules[number], state)
              store(key, rules[number], state)
            end
            return before
            """)

    /// Removes an attempt. ARGV: the time, then for each key the rule, the state that the attempt has set and the earlier
    /// one, empty for none; empty instead of both if all attempts are removed.
    static let remove = ValkeyScript(
        arithmetic + """
            for number, key in ipairs(KEYS) do
              local rule, after, before = parse_rule(ARGV[3 * number - 1]), ARGV[3 * number], ARGV[3 * number + 1]
              local text = redis.call('GET', key)
              local state = parse_state(text)
              if after == '' or not state then
                state = nil
              elseif text == after then
                state = parse_state(before)
              else
                state = current(rule, state)
                if state and state.count > 1 then
                  state.count = state.count - 1
                  state.after = math.min(state.after, following(rule, state))
                else
                  state = nil
                end
              end
              if state or text then store(key, rule, state) end
            end
            return 1
            """)
}
