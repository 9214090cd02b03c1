import ArgumentParser
import CloakroomConfig
import CloakroomCore
import Foundation

/// `cloakroom capacity`: predicts what gateways and Valkey servers need for a number of users.
struct Capacity: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "capacity", abstract: "Predict what gateways and Valkey servers need.",
        discussion: """
            Computes operations per second, and CPU time, memory and network of each gateway and each shard, from \
            figures that were measured on a machine with two cores. With --figures they are those of another machine: \
            Benchmarks/capacity.py writes the file. Requests are counted over HTTP/1.1 without TLS and with small bodies.
            """)

    @Option(
        name: .long,
        help: ArgumentHelp("Users that are signed in at the same time, 1 to 1000000000.", valueName: "number"))
    var users: Int

    @Option(
        name: .long,
        help: ArgumentHelp("Requests per second of all users with a session, 0 to 100000000.", valueName: "number"))
    var requestsPerSecond: Double

    @Option(
        name: .long,
        help: ArgumentHelp("The average time from sign-in to sign-out, 1s to 365d.", valueName: "duration"))
    var sessionLength = "8h"

    @Option(name: .long, help: ArgumentHelp("session.idleTimeout, 1s to 30d.", valueName: "duration"))
    var idleTimeout = "15m"

    @Option(
        name: .long,
        help: ArgumentHelp(
            "The lifetime of access tokens, 1s to 365d; 0s: they are not refreshed.", valueName: "duration"))
    var tokenLifetime = "5m"

    @Option(name: .long, help: ArgumentHelp("The number of gateways, 1 to 10000.", valueName: "number"))
    var gateways = 2

    @Option(
        name: .long,
        help: ArgumentHelp(
            "The number of primaries of the Valkey cluster, 1 to 128; 1: one server.", valueName: "number"))
    var shards = 1

    @Option(name: .long, help: ArgumentHelp("session.cacheSize of each gateway, 1 to 100000000.", valueName: "number"))
    var cacheSize = 100_000

    @Flag(name: .long, help: "Users sign in at an OpenID Provider, instead of with passwords.")
    var provider = false

    @Flag(name: .long, help: "A load balancer sends all requests of a session to the same gateway.")
    var sticky = false

    @Option(name: .long, help: ArgumentHelp("A file of Benchmarks/capacity.py.", valueName: "file"))
    var figures: String?

    @OptionGroup var output: OutputOptions

    func validate() throws {
        try Self.check(users, in: 1...1_000_000_000, "--users", example: "100000")
        guard requestsPerSecond.isFinite, (0...1e8).contains(requestsPerSecond) else {
            throw ValidationError(
                "--requests-per-second must be from 0 to 100000000 (write --requests-per-second 5000)")
        }
        try Self.check(gateways, in: 1...10_000, "--gateways", example: "2")
        try Self.check(shards, in: 1...CapacityDemand.mostShards, "--shards", example: "3")
        try Self.check(cacheSize, in: 1...100_000_000, "--cache-size", example: "100000")
        _ = try demand()
    }

    func run() throws {
        let report = CapacityReport(CapacityModel(demand: try demand(), figures: try measured()))
        try CommandOutput.print(try output.json ? report.json() : report.text)
    }

    private func demand() throws -> CapacityDemand {
        let year = Duration.seconds(365 * 86_400)
        let length = try Self.seconds(sessionLength, in: .seconds(1)...year, "--session-length", example: "8h")
        let idle = try Self.seconds(
            idleTimeout, in: .seconds(1) ... .seconds(30 * 86_400), "--idle-timeout", example: "15m")
        let isRefreshed = tokenLifetime != "0" && tokenLifetime != "0s"
        let tokens =
            isRefreshed
            ? try Self.seconds(tokenLifetime, in: .seconds(1)...year, "--token-lifetime", example: "5m") : 0
        return CapacityDemand(
            users: Double(users), requestsPerSecond: requestsPerSecond, sessionLength: length, idleTimeout: idle,
            tokenLifetime: tokens, gateways: gateways, shards: shards, cacheSize: cacheSize,
            signIn: provider ? .provider : .password, isSticky: sticky)
    }

    private func measured() throws -> CapacityFigures {
        guard let figures else { return .measured }
        guard let data = FileManager.default.contents(atPath: figures) else {
            throw ValidationError("--figures: \(figures) cannot be read; check its path and its permissions")
        }
        guard let read = CapacityFigures(file: data) else {
            throw ValidationError("--figures: \(figures) is no file of figures (write it with Benchmarks/capacity.py)")
        }
        return read
    }

    private static func check(_ value: Int, in range: ClosedRange<Int>, _ name: String, example: String) throws {
        guard range.contains(value) else {
            throw ValidationError(
                "\(name) must be from \(range.lowerBound) to \(range.upperBound) (write \(name) \(example))")
        }
    }

    private static func seconds(
        _ text: String, in range: ClosedRange<Duration>, _ name: String, example: String
    ) throws -> Double {
        guard let duration = DurationNotation.parse(text, in: range) else {
            let (low, high) = (DurationNotation.render(range.lowerBound), DurationNotation.render(range.upperBound))
            throw ValidationError(
                "\(name) must be a duration from \(low) to \(high), not “\(text)” (write \(name) \(example))")
        }
        return duration / .seconds(1)
    }
}
