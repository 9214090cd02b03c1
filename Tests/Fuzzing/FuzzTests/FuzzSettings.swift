import Foundation
import FuzzTargets

/// What the environment says about how to fuzz.
struct FuzzSettings {
    /// How long each target takes.
    let duration: Duration
    let seed: UInt64
    /// One input to try.
    let input: (target: FuzzTarget, bytes: [UInt8])?

    static let current = FuzzSettings(ProcessInfo.processInfo.environment)

    private init(_ environment: [String: String]) {
        duration = .milliseconds(Int64((environment["CLOAKROOM_FUZZ_SECONDS"].flatMap(Double.init) ?? 2) * 1_000))
        seed = environment["CLOAKROOM_FUZZ_SEED"].flatMap { UInt64($0) } ?? 1
        let parts = environment["CLOAKROOM_FUZZ_INPUT"]?.split(separator: ":", maxSplits: 1) ?? []
        guard parts.count == 2, let target = FuzzTarget.named(String(parts[0])),
            let bytes = Data(base64Encoded: String(parts[1]))
        else {
            input = nil
            return
        }
        input = (target, Array(bytes))
    }

    /// The command that tries an input again.
    static func replay(_ target: FuzzTarget, _ bytes: [UInt8]) -> String {
        "CLOAKROOM_FUZZ_INPUT=\(target.name):\(Data(bytes).base64EncodedString()) swift test --filter FuzzTests/replay"
    }
}
