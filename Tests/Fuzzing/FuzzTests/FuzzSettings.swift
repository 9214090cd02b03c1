import Foundation
import FuzzTargets

/// The fuzzing options of the environment.
struct FuzzSettings {
    /// The time for each target; `nil` for the target's default.
    private let duration: Duration?
    let seed: UInt64
    /// A single input to check.
    let input: (target: FuzzTarget, bytes: [UInt8])?

    static let current = FuzzSettings(ProcessInfo.processInfo.environment)

    private init(_ environment: [String: String]) {
        duration = environment["CLOAKROOM_FUZZ_SECONDS"].flatMap(Double.init).map { .seconds($0) }
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

    /// The time for a target.
    func duration(of target: FuzzTarget) -> Duration {
        duration ?? .seconds(target.usualSeconds)
    }

    /// The command that checks an input again.
    static func replay(_ target: FuzzTarget, _ bytes: [UInt8]) -> String {
        "CLOAKROOM_FUZZ_INPUT=\(target.name):\(Data(bytes).base64EncodedString()) swift test --filter FuzzTests/replay"
    }
}
