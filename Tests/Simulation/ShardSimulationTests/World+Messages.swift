import CloakroomCore
import TestSupport

@testable import CloakroomSessions

/// Commands, their transport, and their redirection.
extension World {
    /// Sends a command of the gateway's own work to the server of its slot.
    func send(
        _ body: Call.Body, slot: Int, from gateway: Gateway, owner: Call.Owner, isDurable: Bool = false,
        pendingSave: WriteJournal.PendingSave? = nil
    ) {
        let call = add(body, slot, gateway, owner, isDurable: isDurable)
        calls[call].pendingSave = pendingSave
        calls[call].repetition = gateway.journal.repetition(of: hashSlots[slot])
        calls[call].replacement = gateway.journal.replacement(of: hashSlots[slot])
        queue.push(.timeout(call: call), at: calls[call].deadline)
        route(call)
    }

    /// Sends a command to a server: a question for the topology, or a repetition of the journal. It is not redirected.
    func send(_ body: Call.Body, slot: Int, to node: Int, from gateway: Gateway, owner: Call.Owner) {
        let call = add(body, slot, gateway, owner, isDurable: false)
        queue.push(.timeout(call: call), at: calls[call].deadline)
        transmit(call, to: node)
    }

    private func add(
        _ body: Call.Body, _ slot: Int, _ gateway: Gateway, _ owner: Call.Owner, isDurable: Bool
    ) -> Int {
        let timeout = settings.commandTimeout + (isDurable ? Settings.waitBound : 0)
        calls.append(
            Call(
                gateway: gateway.number, process: gateway.process, owner: owner, body: body, slot: slot,
                isDurable: isDurable, sentAt: now, deadline: now + timeout))
        return calls.count - 1
    }

    /// Sends a command by the route of its slot.
    private func route(_ call: Int) {
        switch gateways[calls[call].gateway].routes[calls[call].slot] {
        case .link(let address):
            let node = Settings.number(of: address)
            // A server that has just redirected here is not asked again at once.
            if calls[call].sender == node || calls[call].attempts > 3 { return wait(call) }
            transmit(call, to: node)
        case .wait: wait(call)
        case .none:
            coverage.count(.distrusted)
            queue.push(.lost(call: call), at: now + 1)
        case .inDoubt:
            coverage.count(.doubted)
            queue.push(.lost(call: call), at: now + 1)
        }
    }

    private func wait(_ call: Int) {
        coverage.count(.parked)
        calls[call].sender = -1
        queue.push(.resend(call: call), at: now + random.between(5, 80))
    }

    func resend(_ call: Int) {
        guard isOpen(call) else { return }
        calls[call].attempts += 1
        guard calls[call].attempts < RedirectedCommands.maximumAttempts, now < calls[call].deadline else {
            return close(call, .unavailable)
        }
        guard case .link(let address) = gateways[calls[call].gateway].routes[calls[call].slot] else {
            return route(call)
        }
        transmit(call, to: Settings.number(of: address))
    }

    private func isOpen(_ call: Int) -> Bool {
        let gateway = gateways[calls[call].gateway]
        return gateway.isUp && gateway.process == calls[call].process && !calls[call].isClosed
    }

    private func close(_ call: Int, _ reply: Reply) {
        calls[call].isClosed = true
        deliver(reply, to: call)
    }

    private func transmit(_ call: Int, to node: Int) {
        let gateway = gateways[calls[call].gateway]
        guard gateway.links[node].state == .ready else {
            queue.push(.lost(call: call), at: now + 1)
            return
        }
        calls[call].node = node
        calls[call].link = gateway.links[node].number
        calls[call].isSent = true
        gateway.links[node].calls.append(call)
        var time = now + hop()
        // Durable commands have a connection of their own.
        if !calls[call].isDurable {
            time = max(time, gateway.links[node].lastSent)
            gateway.links[node].lastSent = time
        }
        queue.push(.command(call: call, node: node), at: time)
    }

    private func hop() -> Int64 {
        guard random.chance(settings.slow) else { return random.between(1, 6) }
        coverage.count(.slowMessage)
        return random.between(10, 150)
    }

    /// Until when a gateway and a server cannot exchange messages; 0 if they can.
    func cutUntil(_ gateway: Gateway, _ node: Node) -> Int64 {
        guard gateway.isolation != node.isolation else { return 0 }
        var time: Int64 = 0
        if gateway.isolation >= 0 { time = isolations[gateway.isolation] }
        if node.isolation >= 0 { time = max(time, isolations[node.isolation]) }
        return time
    }

    /// A command reaches a server, or waits in its socket or in the network.
    func command(_ call: Int, at node: Node) {
        let gateway = gateways[calls[call].gateway]
        let cut = cutUntil(gateway, node)
        if cut > 0 {
            // The network delivers it later, if the gateway has not closed the connection.
            let isOpen = gateway.links[node.number].number == calls[call].link
            if isOpen { queue.push(.command(call: call, node: node.number), at: max(cut, now) + 1) }
        } else if !node.isUp {
            queue.push(
                .linkReset(gateway: gateway.number, node: node.number, link: calls[call].link),
                at: now + random.between(1, 5))
        } else if node.frozenUntil > now {
            // It is executed even if the gateway closes the connection in the meantime.
            queue.push(.command(call: call, node: node.number), at: node.frozenUntil)
        } else {
            execute(call, at: node)
        }
    }

    func reply(_ call: Int, _ reply: Reply, from node: Node) {
        let link = gateways[calls[call].gateway].links[node.number]
        var time = now + hop()
        if !calls[call].isDurable, link.number == calls[call].link {
            time = max(time, link.lastReceived + 1)
            gateways[calls[call].gateway].links[node.number].lastReceived = time
        }
        queue.push(.reply(call: call, reply), at: time)
    }

    func replied(_ call: Int, _ reply: Reply) {
        let gateway = gateways[calls[call].gateway]
        let node = calls[call].node
        guard isOpen(call), gateway.links[node].number == calls[call].link else { return }
        let cut = cutUntil(gateway, nodes[node])
        if cut > 0 {
            gateway.links[node].lastReceived = max(gateway.links[node].lastReceived, cut + 1)
            queue.push(.reply(call: call, reply), at: max(cut, now) + 1)
            return
        }
        gateway.links[node].calls.removeAll { $0 == call }
        switch reply {
        case .moved(let other): redirect(call, to: other, isAsking: false)
        case .ask(let other): redirect(call, to: other, isAsking: true)
        case .clusterDown: sendAgain(call)
        default: close(call, reply)
        }
    }

    /// A command was not executed. It is sent again within its deadline.
    private func sendAgain(_ call: Int) {
        calls[call].isSent = false
        switch calls[call].owner {
        case .topology, .repetition: close(call, .unavailable)
        default: wait(call)
        }
    }

    private func redirect(_ call: Int, to node: Int, isAsking: Bool) {
        let gateway = gateways[calls[call].gateway]
        calls[call].isSent = false
        calls[call].attempts += 1
        if case .repetition = calls[call].owner { return close(call, .unavailable) }
        guard calls[call].attempts < RedirectedCommands.maximumAttempts, now < calls[call].deadline else {
            return close(call, .unavailable)
        }
        coverage.count(isAsking ? .redirectedWithAsking : .redirected)
        note("g\(gateway.number) call \(call) \(isAsking ? "asks" : "moved to") n\(node)")
        calls[call].sender = calls[call].node
        redirected(gateway, calls[call].slot, by: calls[call].node, to: node, isAsking: isAsking)
        if isAsking, gateway.links[node].state == .ready {
            calls[call].isAsking = mutant != .asksWithoutAsking
            calls[call].asks += 1
            if calls[call].asks > 3 {
                violate(.progress, "call \(call) (\(describe(calls[call].body))) is redirected in circles")
            }
            return transmit(call, to: node)
        }
        route(call)
    }

    /// The link of a command was lost, or there is none. What was sent is not sent again.
    func lost(_ call: Int) {
        guard isOpen(call) else { return }
        if mutant == .retriesUnknownResult, calls[call].isSent, now < calls[call].sentAt + 3_000 {
            (calls[call].attempts, calls[call].deadline) = (0, now + 1_000)
            return wait(call)
        }
        close(call, calls[call].isSent ? .lost : .unavailable)
    }

    func timedOut(_ call: Int) {
        guard isOpen(call) else { return }
        let (gateway, node) = (gateways[calls[call].gateway], calls[call].node)
        // A server that does not respond may be lost. Its link is lost before its commands fail.
        if calls[call].isSent, gateway.links[node].number == calls[call].link {
            dropLink(gateway, node)
        } else {
            lost(call)
        }
    }

    private func deliver(_ reply: Reply, to call: Int) {
        let gateway = gateways[calls[call].gateway]
        switch calls[call].owner {
        case .request(let request): responded(request, call, reply)
        case .refresh(let refresh): responded(refresh: refresh, call, reply)
        case .signIn(let session): signInProceeds(session, call, reply)
        case .signOut(let signOut): signOutProceeds(signOut, call, reply)
        case .callback(let mark): callbackProceeds(mark, call, reply)
        case .attempt(let attempt): attemptProceeds(attempt, reply)
        case .topology: topologyReceived(gateway, call, reply)
        case .repetition(let index): repeated(index, call, reply)
        case .none: break
        }
    }
}
