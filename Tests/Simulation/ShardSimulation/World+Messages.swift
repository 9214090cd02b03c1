import CloakroomCore

/// Commands, their transport, and their redirection.
extension World {
    /// Sends a command of the gateway's own work to the owner of its slot. A partition that is not trusted gets none.
    func send(_ body: Call.Body, slot: Int, from gateway: Gateway, owner: Call.Owner, isDurable: Bool = false) {
        let call = add(body, slot, gateway, owner, isDurable: isDurable)
        guard gateway.trusts(slot, now, mutant) else {
            coverage.count(.distrusted)
            queue.push(.timeout(call: call), at: now + 1)
            return
        }
        transmitToOwner(call)
        queue.push(.timeout(call: call), at: calls[call].deadline)
    }

    /// Sends a command that needs no trust: a question for the topology, or a repetition of the journal.
    func send(_ body: Call.Body, slot: Int, to node: Int, from gateway: Gateway, owner: Call.Owner, word: Int) {
        let call = add(body, slot, gateway, owner, isDurable: false)
        transmit(call, to: node)
        calls[call].word = word
        queue.push(.timeout(call: call), at: calls[call].deadline)
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

    func transmitToOwner(_ call: Int) {
        let gateway = gateways[calls[call].gateway]
        let partition = gateway.partitions[calls[call].slot]
        calls[call].word = partition.word
        var node = partition.owner
        if mutant == .readsReplica, case .read = calls[call].body { node ^= 1 }
        transmit(call, to: node)
    }

    private func transmit(_ call: Int, to node: Int) {
        let gateway = gateways[calls[call].gateway]
        guard gateway.links[node].state == .ready else {
            queue.push(.timeout(call: call), at: now + 1)
            return
        }
        calls[call].node = node
        calls[call].link = gateway.links[node].number
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
        guard gateway.isUp, gateway.process == calls[call].process, !calls[call].isClosed else { return }
        guard gateway.links[node].number == calls[call].link else { return }
        let cut = cutUntil(gateway, nodes[node])
        if cut > 0 {
            gateway.links[node].lastReceived = max(gateway.links[node].lastReceived, cut + 1)
            queue.push(.reply(call: call, reply), at: max(cut, now) + 1)
            return
        }
        switch reply {
        case .moved(let other): redirect(call, to: other, isAsking: false)
        case .ask(let other): redirect(call, to: other, isAsking: true)
        case .clusterDown:
            calls[call].isClosed = true
            deliver(.unavailable, to: call)
        default:
            calls[call].isClosed = true
            deliver(isBelieved(call) ? reply : .unavailable, to: call)
        }
    }

    /// Whether the reply to a command may be used: the partition has been trusted since the command was sent.
    private func isBelieved(_ call: Int) -> Bool {
        switch calls[call].owner {
        case .topology, .assertion: return true
        default: break
        }
        let gateway = gateways[calls[call].gateway]
        let slot = calls[call].slot
        if gateway.trusts(slot, now, mutant), gateway.partitions[slot].word == calls[call].word { return true }
        coverage.count(.doubted)
        return false
    }

    /// A redirected command was not executed. It is sent again within its deadline, at most five times.
    private func redirect(_ call: Int, to node: Int, isAsking: Bool) {
        let gateway = gateways[calls[call].gateway]
        let slot = calls[call].slot
        calls[call].redirects += 1
        var isOwnWork = true
        switch calls[call].owner {
        case .topology, .assertion: isOwnWork = false
        default: break
        }
        if calls[call].redirects > 5 {
            violate(.progress, "call \(call) (\(describe(calls[call].body))) is redirected in circles")
        }
        guard isOwnWork, calls[call].redirects <= 5, now < calls[call].deadline else {
            calls[call].isClosed = true
            return deliver(.unavailable, to: call)
        }
        if isAsking {
            coverage.count(.redirectedWithAsking)
            calls[call].isAsking = mutant != .asksWithoutAsking
            transmit(call, to: node)
            return
        }
        coverage.count(.redirected)
        note("g\(gateway.number) call \(call) moved to n\(node)")
        if gateway.partitions[slot].owner == calls[call].node {
            changeOwner(gateway, slot, to: node)
            for other in gateway.links.indices where gateway.links[other].state == .ready { ask(gateway, other) }
        }
        if gateway.trusts(slot, now, mutant) {
            transmitToOwner(call)
        } else {
            coverage.count(.parked)
            gateway.partitions[slot].parked.append(call)
        }
    }

    func timedOut(_ call: Int) {
        let gateway = gateways[calls[call].gateway]
        guard gateway.isUp, gateway.process == calls[call].process, !calls[call].isClosed else { return }
        if mutant == .retriesUnknownResult, calls[call].node >= 0, calls[call].redirects == 0 {
            calls[call].redirects = 1
            if gateway.trusts(calls[call].slot, now, mutant) {
                transmitToOwner(call)
                queue.push(.timeout(call: call), at: now + settings.commandTimeout)
                return
            }
        }
        calls[call].isClosed = true
        let node = calls[call].node
        // A server that does not respond may be lost.
        if node >= 0, now >= calls[call].deadline, gateway.links[node].number == calls[call].link {
            dropLink(gateway, node)
        }
        deliver(.unavailable, to: call)
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
        case .assertion(let slot): asserted(gateway, slot, call, reply)
        case .none: break
        }
    }
}
