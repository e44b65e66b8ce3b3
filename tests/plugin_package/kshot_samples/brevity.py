def brevity(prediction, reference, words=10):
    return 100.0 * (len(prediction.split()) <= words)
