package import Foundation
import Synchronization

/// A real cluster: three primaries, each with a replica, and a node timeout of 2 s. It starts in about 3 s.
package final class ValkeyCluster: Sendable {
    /// The number of hash slots.
    package static let slotCount = 16_384

    private let members: Mutex<[ValkeyNode]>
    private let temporary: TemporaryDirectory?
    private let directory: URL
    private let arguments: [String]

    /// Starts a cluster. The caller has to stop it.
    /// - Parameters:
    ///   - directory: An existing folder for its files; by default a temporary one.
    ///   - arguments: Options of every `valkey-server`.
    package init(in directory: URL? = nil, arguments: [String] = []) async throws {
        temporary = directory == nil ? try TemporaryDirectory() : nil
        self.directory = directory ?? temporary?.url ?? URL(fileURLWithPath: "/")
        self.arguments = arguments
        let base = self.directory
        members = Mutex(try (0..<6).map { _ in try ValkeyNode(in: base, arguments) })
        do { try await form() } catch {
            printLogs()
            await stop()
            throw error
        }
    }

    /// All nodes. At first the primaries, then their replicas in the same order.
    package var nodes: [ValkeyNode] { members.withLock { $0 } }
    package var folder: String { directory.path }
    /// The addresses of all nodes, separated by commas.
    package var addresses: String { nodes.map(\.address).joined(separator: ",") }

    /// Starts all nodes that do not run, for example after ``stop()``, and waits until all slots are served.
    package func restart() async throws {
        for node in nodes where !node.isRunning { try await node.start() }
        try await settled()
    }

    /// Kills all nodes.
    package func stop() async {
        for node in nodes {
            // A killed process ends even if it is suspended.
            await node.kill()
        }
    }

    /// Prints the ends of the nodes' logs, for a test that failed.
    package func printLogs() {
        for node in nodes { print("node \(node.port), \(node.id.prefix(8)):\n\(node.log(lines: 12))") }
    }

    private func form() async throws {
        let nodes = self.nodes
        for node in nodes { try await node.start() }
        let bounds = [0, 5_461, 10_923, Self.slotCount]
        for (index, primary) in nodes.prefix(3).enumerated() {
            try await primary.run("CLUSTER", "ADDSLOTSRANGE", "\(bounds[index])", "\(bounds[index + 1] - 1)")
            try await primary.run("CLUSTER", "SET-CONFIG-EPOCH", "\(index + 1)")
        }
        for node in nodes.dropFirst() { try await meet(node) }
        try await eventually("all nodes know each other") {
            for node in nodes {
                // Nodes in the middle of a handshake are listed too, under temporary names.
                let table = try await node.run("CLUSTER", "NODES").text ?? ""
                guard nodes.allSatisfy({ table.contains($0.id) }), !table.contains("handshake") else { return false }
            }
            return true
        }
        for (primary, replica) in zip(nodes.prefix(3), nodes.dropFirst(3)) {
            try await replica.run("CLUSTER", "REPLICATE", primary.id)
        }
        try await settled()
    }

    private func meet(_ node: ValkeyNode) async throws {
        try await nodes[0].run("CLUSTER", "MEET", "127.0.0.1", "\(node.port)", "\(node.busPort)")
    }

    /// Waits until all running nodes serve all slots and agree on their owners, and every replica follows its primary.
    package func settled() async throws {
        let running = nodes.filter(\.isRunning)
        try await eventually("the cluster serves all slots") {
            var tables: Set<[String]> = []
            for node in running {
                guard try await node.info("CLUSTER", "INFO")["cluster_state"] == "ok" else { return false }
                let link = try await node.info("INFO", "replication")["master_link_status"]
                guard link == nil || link == "up" else { return false }
                tables.insert(try await owners(accordingTo: node).map { "\($0.key.lowerBound) \($0.value)" }.sorted())
            }
            return tables.count == 1
        }
    }

    // Owners of slots

    /// The owner's id of each range of slots, as a node knows it.
    private func owners(accordingTo node: ValkeyNode) async throws -> [Range<Int>: String] {
        let rows = try await node.run("CLUSTER", "SLOTS").list ?? []
        let pairs = rows.compactMap { row -> (Range<Int>, String)? in
            guard let row = row.list, row.count >= 3, let first = row[0].integer, let last = row[1].integer,
                let id = row[2].list?.dropFirst(2).first?.text
            else { return nil }
            return (first..<(last + 1), id)
        }
        return Dictionary(pairs) { first, _ in first }
    }

    /// The primaries that own slots, in the order of the nodes.
    package func primaries() async throws -> [ValkeyNode] {
        let ids = Set(try await owners(accordingTo: witness()).values)
        return nodes.filter { ids.contains($0.id) }
    }

    /// The primary of a slot.
    package func owner(ofSlot slot: Int) async throws -> ValkeyNode {
        let id = try await owners(accordingTo: witness()).first { $0.key.contains(slot) }?.value
        guard let node = nodes.first(where: { $0.id == id }) else { throw TimeoutError("an owner of the slot \(slot)") }
        return node
    }

    /// The primary of a key.
    package func owner(ofKey key: String) async throws -> ValkeyNode {
        try await owner(ofSlot: try await slot(ofKey: key))
    }

    /// The slot of a key, computed by a server.
    package func slot(ofKey key: String) async throws -> Int {
        try await witness().run("CLUSTER", "KEYSLOT", key).integer ?? -1
    }

    /// A replica of a primary.
    package func replica(of primary: ValkeyNode) async throws -> ValkeyNode {
        let table = try await witness().run("CLUSTER", "NODES").text ?? ""
        // Each line: id, address, flags, id of the primary, …
        let lines: [[Substring]] = table.split(separator: "\n").map { $0.split(separator: " ") }
        let replicas = lines.filter { $0.count > 3 && $0[3] == primary.id && !$0[2].contains("fail") }
        let ids = Set(replicas.map { String($0[0]) })
        guard let node = nodes.first(where: { ids.contains($0.id) && $0.isRunning }) else {
            throw TimeoutError("a replica of the node \(primary.port)")
        }
        return node
    }

    /// A node that responds.
    private func witness() async throws -> ValkeyNode {
        for node in nodes where node.isRunning {
            if (try? await RESPReply.ask(port: node.port, ["PING"], within: .seconds(2))) != nil { return node }
        }
        throw TimeoutError("a node that responds")
    }

    // Changes

    /// Kills a primary and waits until its replica has replaced it.
    /// - Returns: The new primary.
    @discardableResult
    package func failOver(_ primary: ValkeyNode) async throws -> ValkeyNode {
        let replica = try await replica(of: primary)
        await primary.kill()
        try await isPrimary(replica)
        return replica
    }

    /// Makes a replica the primary without a loss of data.
    package func promote(_ replica: ValkeyNode) async throws {
        try await replica.run("CLUSTER", "FAILOVER")
        try await isPrimary(replica)
    }

    /// Waits until a node is a primary that serves its slots.
    package func isPrimary(_ node: ValkeyNode) async throws {
        try await eventually("the node \(node.port) is a primary") {
            let isPrimary = try await node.info("INFO", "replication")["role"] == "master"
            let state = try await node.info("CLUSTER", "INFO")["cluster_state"]
            return isPrimary && state == "ok"
        }
    }

    /// Moves slots from one primary to another in the old way: slot by slot and key by key.
    /// - Parameter during: Called in the middle of each slot's migration, when its keys are at either node.
    package func moveSlots(
        _ slots: Range<Int>, from source: ValkeyNode, to target: ValkeyNode,
        during: (_ slot: Int) async throws -> Void = { _ in }
    ) async throws {
        for slot in slots {
            try await target.run("CLUSTER", "SETSLOT", "\(slot)", "IMPORTING", source.id)
            try await source.run("CLUSTER", "SETSLOT", "\(slot)", "MIGRATING", target.id)
            try await during(slot)
            while let keys = try await source.run("CLUSTER", "GETKEYSINSLOT", "\(slot)", "100").list, !keys.isEmpty {
                let names = keys.compactMap(\.text)
                try await source.run(
                    ["MIGRATE", "127.0.0.1", "\(target.port)", "", "0", "5000", "REPLACE", "KEYS"] + names)
            }
            for node in [target, source] {
                try await node.run("CLUSTER", "SETSLOT", "\(slot)", "NODE", target.id)
            }
        }
    }

    /// Moves slots in the way of Valkey 9: atomically, by the servers themselves.
    package func moveSlotsAtomically(_ slots: Range<Int>, from source: ValkeyNode, to target: ValkeyNode) async throws {
        try await source.run(
            "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", "\(slots.lowerBound)", "\(slots.upperBound - 1)", "NODE", target.id
        )
        try await eventually("the slots are at the node \(target.port)") {
            try await owners(accordingTo: target).contains {
                $0.value == target.id && $0.key.contains(slots.lowerBound) && $0.key.contains(slots.upperBound - 1)
            }
        }
    }

    /// Adds a primary without slots.
    package func addNode() async throws -> ValkeyNode {
        let node = try ValkeyNode(in: directory, arguments)
        try await node.start()
        try await meet(node)
        members.withLock { $0.append(node) }
        try await settled()
        // A node without slots is in no table of slots, so the nodes may agree before all of them know it.
        try await eventually("all nodes know the node \(node.port)") {
            for other in nodes where other.isRunning {
                guard try await other.run("CLUSTER", "NODES").text?.contains(node.id) == true else { return false }
            }
            return true
        }
        return node
    }

    /// Removes a node without slots.
    package func removeNode(_ node: ValkeyNode) async throws {
        await node.kill()
        members.withLock { $0.removeAll { $0 === node } }
        for other in nodes where other.isRunning { try await other.run("CLUSTER", "FORGET", node.id) }
    }

    /// Runs a command at every node.
    package func everywhere(_ words: String...) async throws {
        for node in nodes where node.isRunning { try await node.run(words) }
    }

    /// Runs a test with a cluster that is stopped afterwards. If the test throws, the nodes' logs are printed.
    package static func with<Value>(
        in directory: URL? = nil, arguments: [String] = [], _ body: (ValkeyCluster) async throws -> Value
    ) async throws -> Value {
        let cluster = try await ValkeyCluster(in: directory, arguments: arguments)
        do {
            let value = try await body(cluster)
            await cluster.stop()
            return value
        } catch {
            cluster.printLogs()
            await cluster.stop()
            throw error
        }
    }
}
