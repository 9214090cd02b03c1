import FuzzTargets
import Glibc

/// The entry point that libFuzzer calls for each input. libFuzzer has its own `main`; `CLOAKROOM_FUZZ_TARGET` selects
/// the target.
///
/// The pointer is required by libFuzzer's interface; the bytes are copied immediately.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: start, count: count))
    do throws(Violation) {
        try chosen.check(bytes)
    } catch {
        complain("\(chosen.name): \(error)")
        // Aborting is the only way to make libFuzzer store the input.
        abort()
    }
    return 0
}

private let chosen: FuzzTarget = {
    let name = getenv("CLOAKROOM_FUZZ_TARGET").map { String(cString: $0) } ?? ""
    guard let target = FuzzTarget.named(name) else {
        complain("CLOAKROOM_FUZZ_TARGET must be one of \(FuzzTarget.all.map(\.name))")
        exit(2)
    }
    return target
}()

/// Writes an unbuffered line, which survives a crash.
private func complain(_ text: String) {
    let line = Array("cloakroom-fuzz: \(text)\n".utf8)
    _ = write(STDERR_FILENO, line, line.count)
}
