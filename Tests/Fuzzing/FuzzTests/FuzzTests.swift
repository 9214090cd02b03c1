import FoundationEssentials
import FuzzTargets
import TestSupport
import Testing

/// Checks the corpus and mutations of it. `CLOAKROOM_FUZZ_SECONDS` sets the time for each target, by default 0.5 s;
/// `CLOAKROOM_FUZZ_SEED` selects other mutations; `CLOAKROOM_FUZZ_INPUT=TARGET:BASE64` checks one input, in the format
/// that a failure prints.
@Suite("Fuzzing", .serialized)
struct FuzzTests {
    @Test("Every input of the corpus satisfies the invariants of its target", arguments: FuzzTarget.all)
    func corpus(_ target: FuzzTarget) throws {
        let inputs = try Corpus.inputs(of: target)
        expect(!inputs.isEmpty)
        for (name, bytes) in inputs {
            if let violation = violation(of: target, bytes) { Issue.record("\(name): \(violation)") }
        }
    }

    @Test("Every folder of the corpus belongs to a target")
    func directories() throws {
        try expect(Corpus.directories(), equals: FuzzTarget.all.map(\.name).sorted())
    }

    @Test("Mutations of the corpus satisfy the invariants for the configured time", arguments: FuzzTarget.all)
    func mutations(_ target: FuzzTarget) throws {
        let settings = FuzzSettings.current
        let corpus = try Corpus.inputs(of: target).map(\.bytes)
        let mutations = Mutations(of: corpus, words: target.words, seed: settings.seed)
        let fuzzCase = try FuzzCase(of: target)
        let start = ContinuousClock.now
        var turn: UInt64 = 0
        while ContinuousClock.now - start < settings.duration {
            let bytes = mutations.input(turn)
            fuzzCase.begin(bytes)
            if let violation = violation(of: target, bytes) {
                Issue.record("seed \(settings.seed), turn \(turn): \(violation)\n\(FuzzSettings.replay(target, bytes))")
                break
            }
            turn += 1
        }
        fuzzCase.end()
        print("fuzzing \(target.name): \(turn) inputs in \(settings.duration), seed \(settings.seed)")
        #expect(turn > 0)
    }

    @Test(
        "Rules 31 and 46: parsing time grows at most linearly with the input",
        arguments: FuzzTarget.all.filter { !$0.times.isEmpty })
    func linearTime(_ target: FuzzTarget) {
        for time in target.times {
            for family in time.families {
                do throws(Violation) {
                    let cost = try time.check(family)
                    print("time of \(target.name), \(family): \(Int(cost)) ns per byte")
                } catch {
                    Issue.record("\(target.name): \(error)")
                }
            }
        }
    }

    @Test("Quadratic time and an excessive time per byte are detected")
    func quadraticTime() {
        let run = LinearTime.Family.repeated("a run", "a")
        let quadratic = LinearTime([run]) { bytes in
            var sum = 0
            for index in stride(from: 0, to: bytes.count, by: 64) { sum &+= bytes[...index].count { $0 == 1 } }
            precondition(sum == 0)
        }
        #expect(throws: Violation.self) { try quadratic.check(run) }
        let slow = LinearTime([run], nanosecondsPerByte: 1) { bytes in
            var sum = 0
            for byte in bytes {
                for step in 0..<200 { sum &+= Int(byte) ^ step }
            }
            precondition(sum != 1)
        }
        #expect(throws: Violation.self) { try slow.check(run) }
    }

    @Test("The input in CLOAKROOM_FUZZ_INPUT satisfies its invariants", .enabled(if: FuzzSettings.current.input != nil))
    func replay() throws {
        let (target, bytes) = try require(FuzzSettings.current.input)
        expect(violation(of: target, bytes), equals: nil)
    }

    @Test("The same seed gives the same mutations, another seed gives others")
    func determinism() {
        let corpus = [Array("GET / HTTP/1.1".utf8), Array("POST".utf8)]
        func inputs(_ seed: UInt64) -> [[UInt8]] {
            let mutations = Mutations(of: corpus, words: [Array("a".utf8)], seed: seed)
            return (0..<50).map(mutations.input)
        }
        expect(inputs(1), equals: inputs(1))
        expect(inputs(1) != inputs(2))
    }

    private func violation(of target: FuzzTarget, _ bytes: [UInt8]) -> String? {
        do throws(Violation) {
            try target.check(bytes)
            return nil
        } catch {
            return "\(target.name): \(error)"
        }
    }
}
