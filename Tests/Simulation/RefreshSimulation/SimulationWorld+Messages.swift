import CloakroomCore
import TestSupport

/// Messages, and the faults of their transport.
extension SimulationWorld {
    /// Sends a call to the store. A call without owner gets no reply.
    func sendToStore(_ body: Call.Body, from replica: Int, owner: Call.Owner, delayedBy extra: Int64 = 0) {
        let call = add(body, from: replica, owner: owner, timeout: settings.storeTimeout)
        // If the replica knows that the connection is lost, most calls fail immediately.
        if !replicas[replica].trustsLink, random.chance(700) {
            configuration(timeoutOf: call, at: now + 1)
            return
        }
        send(call, delay: hop(1, 8, owner: owner) + extra) { .atStore(call: $0) }
    }

    func sendUpstream(_ body: Call.Body, from replica: Int, owner: Call.Owner) {
        let timeout = settings.limits.call.wholeMilliseconds
        let call = add(body, from: replica, owner: owner, timeout: timeout)
        var delay = hop(5, 40, owner: owner)
        if case .refresh = body, random.chance(settings.slowToken) {
            coverage.count(.slowMessage)
            disturb(owner)
            delay += random.between(200, 1_800)
        }
        send(call, delay: delay) { .atUpstream(call: $0) }
    }

    private func add(_ body: Call.Body, from replica: Int, owner: Call.Owner, timeout: Int64) -> Int {
        calls.append(
            Call(
                replica: replica, life: replicas[replica].life, link: replicas[replica].link, owner: owner, body: body,
                deadline: now + timeout))
        return calls.count - 1
    }

    private func send(_ call: Int, delay: Int64, as event: (Int) -> Event) {
        if random.chance(settings.lostRequest) {
            coverage.count(.lostRequest)
            note("call \(call) is lost")
            disturb(calls[call].owner)
            scheduleTimeout(of: call)
            return
        }
        queue.push(event(call), at: now + delay)
        if now + delay >= calls[call].deadline { scheduleTimeout(of: call) }
        if random.chance(settings.duplicateRequest) {
            coverage.count(.duplicateRequest)
            disturb(calls[call].owner)
            queue.push(event(call), at: now + delay + random.between(1, random.chance(300) ? 3_000 : 100))
        }
    }

    /// Sends a reply: in order from the store, in any order from the upstream.
    func reply(_ call: Int, _ response: TestResponse, fromStore: Bool, delay least: Int64 = 0) {
        if case .none = calls[call].owner { return }
        if random.chance(settings.lostReply) {
            coverage.count(.lostReply)
            note("the reply to call \(call) is lost")
            disturb(calls[call].owner)
            scheduleTimeout(of: call)
            return
        }
        let replica = calls[call].replica
        var time =
            now + (fromStore ? hop(1, 8, owner: calls[call].owner) : hop(5, 40, owner: calls[call].owner)) + least
        if fromStore {
            // A reply queued after a slow one is slow too.
            if replicas[replica].lastDelivery >= time + 20 { disturb(calls[call].owner) }
            time = max(time, replicas[replica].lastDelivery + 1)
            replicas[replica].lastDelivery = time
        }
        responses.append(response)
        let index = responses.count - 1
        let event: Event =
            fromStore ? .storeReply(call: call, response: index) : .upstreamReply(call: call, response: index)
        queue.push(event, at: time)
        if time >= calls[call].deadline { scheduleTimeout(of: call) }
        if random.chance(settings.duplicateReply) {
            coverage.count(.duplicateReply)
            queue.push(event, at: time + random.between(1, 50))
        }
    }

    /// A timeout is scheduled only if it will occur: the simulation knows that in advance.
    func scheduleTimeout(of call: Int) {
        configuration(timeoutOf: call, at: calls[call].deadline)
    }

    private func configuration(timeoutOf call: Int, at time: Int64) {
        if case .none = calls[call].owner { return }
        guard !calls[call].isTimeoutScheduled else { return }
        calls[call].isTimeoutScheduled = true
        disturb(calls[call].owner)
        queue.push(.callTimeout(call: call), at: max(time, now))
    }

    private func hop(_ least: Int64, _ most: Int64, owner: Call.Owner) -> Int64 {
        guard random.chance(settings.slow) else { return random.between(least, most) }
        coverage.count(.slowMessage)
        disturb(owner)
        return random.between(20, random.chance(500) ? 300 : 4_000)
    }

    /// Marks a refresh as disturbed by a fault, which excuses losses.
    func disturb(_ owner: Call.Owner) {
        if case .refresh(let flight) = owner { refreshes[flight].isDisturbed = true }
    }

    /// Notifies all replicas except the writer that a session was changed.
    func notify(of session: Int, but writer: Int?) {
        for replica in replicas.indices where replica != writer {
            let time = max(now + random.between(1, 8), replicas[replica].lastDelivery + 1)
            replicas[replica].lastDelivery = time
            replicas[replica].noticesUnderWay[session] += 1
            queue.push(.notice(replica: replica, session: session), at: time)
        }
    }

    func noticed(_ session: Int, at replica: Int) {
        replicas[replica].noticesUnderWay[session] -= 1
        if replicas[replica].isPartitioned || !replicas[replica].isUp {
            coverage.count(.noticeLost)
            note("notice of s\(session) is lost to r\(replica)")
        } else if mutant != .ignoresInvalidations {
            replicas[replica].table[session] = nil
        }
    }

    /// Closes a call whose reply has arrived.
    /// - Returns: Whether the caller still waits for the reply.
    func close(_ call: Int) -> Bool {
        let replica = calls[call].replica
        guard replicas[replica].isUp, calls[call].life == replicas[replica].life else { return false }
        guard !calls[call].isClosed else {
            coverage.count(.lateResponse)
            return false
        }
        calls[call].isClosed = true
        return true
    }
}
